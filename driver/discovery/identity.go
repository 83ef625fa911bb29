// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Audience is the one to give the identity by which agents know each other.
const Audience = "kolo"

// defaultAudience is that of a task's default identity.
const defaultAudience = "nomadproject.io"

var (
	// ErrInvalid is why an identity is not believed: it is malformed, not signed
	// by Nomad, or expired.
	ErrInvalid = errors.New("invalid identity")
	// ErrOtherJob is why a true identity is refused: it is not one of this job.
	ErrOtherJob = errors.New("identity of another job")
)

// Identity is what a peer has proved to be.
type Identity struct {
	Namespace, JobID, Group, Task, AllocID string
	// Expires is zero for an identity that never does.
	Expires time.Time
}

// claims are those that Nomad writes into a workload identity.
type claims struct {
	jwt.Claims

	Namespace string `json:"nomad_namespace"`
	JobID     string `json:"nomad_job_id"`
	AllocID   string `json:"nomad_allocation_id"`
	Task      string `json:"nomad_task"`
}

// Verifier believes the workload identities of one job's tasks.
type Verifier struct {
	// Namespace and JobID are this agent's own.
	Namespace, JobID string
	// Keys are Nomad's public keys.
	Keys *Keys
	// Leeway is the difference of clocks to tolerate, default 30 s.
	Leeway time.Duration
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Authenticate returns who the bearer of the token is, or why it is refused:
// ErrInvalid, ErrOtherJob, or ErrUnreachable where Nomad's keys cannot be had.
func (v *Verifier) Authenticate(ctx context.Context, token string) (Identity, error) {
	tok, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA})
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(tok.Headers) != 1 || tok.Headers[0].KeyID == "" {
		return Identity{}, fmt.Errorf("%w: want one signature that names its key", ErrInvalid)
	}
	h := tok.Headers[0]
	key, err := v.Keys.Get(ctx, h.KeyID)
	if err != nil {
		return Identity{}, err
	}
	if key.Algorithm != "" && key.Algorithm != h.Algorithm {
		return Identity{}, fmt.Errorf("%w: key %s is for %s, not %s", ErrInvalid, h.KeyID, key.Algorithm, h.Algorithm)
	}
	var c claims
	if err := tok.Claims(key.Key, &c); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return v.judge(c)
}

// judge decides on the claims of a token with a good signature.
func (v *Verifier) judge(c claims) (Identity, error) {
	now, leeway := time.Now, v.Leeway
	if v.Now != nil {
		now = v.Now
	}
	if leeway == 0 {
		leeway = 30 * time.Second
	}
	if err := c.ValidateWithLeeway(jwt.Expected{Time: now()}, leeway); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !slices.Contains(c.Audience, Audience) && !slices.Contains(c.Audience, defaultAudience) {
		return Identity{}, fmt.Errorf("%w: its audience is %q, want %q or the default identity", ErrInvalid, []string(c.Audience), Audience)
	}
	if c.AllocID == "" {
		return Identity{}, fmt.Errorf("%w: it names no allocation", ErrInvalid)
	}
	if c.Namespace != v.Namespace || !sameJob(v.JobID, c.JobID) {
		return Identity{}, fmt.Errorf("%w: it is of job %q in namespace %q, this is job %q in namespace %q", ErrOtherJob, c.JobID, c.Namespace, v.JobID, v.Namespace)
	}
	id := Identity{Namespace: c.Namespace, JobID: c.JobID, Group: c.group(), Task: c.Task, AllocID: c.AllocID}
	if c.Expiry != nil {
		id.Expires = c.Expiry.Time()
	}
	return id, nil
}

// sameJob reports whether an identity's job is ours. In identities Nomad puts
// the parent's ID where the job is a dispatched or periodic one.
func sameJob(ours, theirs string) bool {
	return theirs != "" && (ours == theirs ||
		strings.HasPrefix(ours, theirs+"/dispatch-") || strings.HasPrefix(ours, theirs+"/periodic-"))
}

// group reads the task group from the subject, which is
// region:namespace:job:group:task:identity. Job IDs may hold colons, so both
// ends are taken off. It is empty where the subject is not of that form.
func (c claims) group() string {
	_, rest, ok := strings.Cut(c.Subject, ":")
	if !ok {
		return ""
	}
	rest, ok = strings.CutPrefix(rest, c.Namespace+":"+c.JobID+":")
	if !ok {
		return ""
	}
	i := strings.LastIndex(rest, ":")
	if i < 0 {
		return ""
	}
	group, ok := strings.CutSuffix(rest[:i], ":"+c.Task)
	if !ok {
		return ""
	}
	return group
}
