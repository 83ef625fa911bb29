// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

// interrupted is the panic that takes a policy out of its loops. It never leaves
// Interruptible; an error would have to pass through each step of each policy.
type interrupted struct{}

// Checkpoint ends the policy that decides on s once no one waits for its decision. A
// policy calls it in each unit of its work, on the goroutine that Interruptible called
// it on: in another one, the panic would end the program.
func (s *Snapshot) Checkpoint() {
	if s != nil && s.Context != nil && s.Context.Err() != nil {
		panic(interrupted{})
	}
}

// Interruptible returns the decision of allocate on s, or an empty one if Checkpoint
// has ended it; Snapshot.Context states why.
func Interruptible(s *Snapshot, allocate func(*Snapshot) Decision) (d Decision) {
	defer func() {
		r := recover()
		if _, ok := r.(interrupted); r != nil && !ok {
			panic(r)
		}
	}()
	return allocate(s)
}
