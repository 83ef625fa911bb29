// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

// interrupted is the panic that ends a policy's loops. It never leaves Interruptible.
// An error would have to pass through every step of every policy.
type interrupted struct{}

// Checkpoint stops the policy that is deciding on s if its decision is no longer
// needed. Policies call it often while they compute. Call it only on the goroutine
// that called Interruptible, because it stops the policy by a panic that Interruptible
// recovers.
func (s *Snapshot) Checkpoint() {
	if s != nil && s.Context != nil && s.Context.Err() != nil {
		panic(interrupted{})
	}
}

// Interruptible calls allocate and returns its decision on s, or an empty decision if
// Checkpoint stopped it. In that case Snapshot.Context has ended, and its error states
// why.
func Interruptible(s *Snapshot, allocate func(*Snapshot) Decision) (d Decision) {
	defer func() {
		r := recover()
		if _, ok := r.(interrupted); r != nil && !ok {
			panic(r)
		}
	}()
	return allocate(s)
}
