// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Audience is the audience of the identity by which agents recognize each other.
const Audience = "kolo"

// defaultAudience is the audience of a task's default identity.
const defaultAudience = "nomadproject.io"

var (
	// ErrInvalid means that an identity is malformed, not signed by Nomad, or
	// expired.
	ErrInvalid = errors.New("invalid identity")
	// ErrOtherJob means that a genuine identity belongs to another job.
	ErrOtherJob = errors.New("identity of another job")
	// ErrOtherTask means that a genuine identity belongs to a task that is not an
	// agent.
	ErrOtherTask = errors.New("identity of another task")
)

// Identity is the identity that a peer has proved.
type Identity struct {
	Namespace, JobID, Group, Task, AllocID string
	// Issued is when Nomad signed the identity. The allocation had not ended at
	// that time.
	Issued time.Time
	// Expires is zero for an identity that never expires.
	Expires time.Time
	// Until is when the certificate that proves the identity expires.
	Until time.Time
	// Departing means that the registry does not list the allocation, which may be
	// about to leave. Only IdentityFrom sets it.
	Departing bool
}

// claims are the claims that Nomad writes into a workload identity.
type claims struct {
	jwt.Claims

	Namespace string `json:"nomad_namespace"`
	JobID     string `json:"nomad_job_id"`
	AllocID   string `json:"nomad_allocation_id"`
	Task      string `json:"nomad_task"`
}

// VerifierOptions configure NewVerifier.
type VerifierOptions struct {
	// Namespace, JobID, Group and Task are this agent's own.
	Namespace, JobID, Group, Task string
	// Keys are Nomad's public keys.
	Keys *Keys
}

// Verifier accepts certificates that prove the workload identity of an agent of one
// job. Use NewVerifier.
type Verifier struct {
	o      VerifierOptions
	now    func() time.Time
	proofs *proofs
}

// NewVerifier returns a verifier for the options.
func NewVerifier(o VerifierOptions) *Verifier {
	return &Verifier{o: o, now: time.Now, proofs: newProofs()}
}

// Verify returns the identity that a caller's certificate proves. Its errors are
// ErrInvalid, ErrOtherJob, ErrOtherTask, or ErrUnreachable if Nomad's keys cannot
// be read.
func (v *Verifier) Verify(ctx context.Context, cert *x509.Certificate) (Identity, error) {
	return v.verify(ctx, v.proofs.callers, cert)
}

// verifyCalled is Verify for a peer that this agent has called. It does not queue
// behind the proofs of callers.
func (v *Verifier) verifyCalled(ctx context.Context, cert *x509.Certificate) (Identity, error) {
	return v.verify(ctx, v.proofs.called, cert)
}

// verify does the cheap checks first and the proof last.
func (v *Verifier) verify(ctx context.Context, t turn, cert *x509.Certificate) (Identity, error) {
	now := v.now()
	proof, err := readCertificate(cert, now)
	if err != nil {
		return Identity{}, err
	}
	header, c, err := readClaims(proof.Message)
	if err != nil {
		return Identity{}, err
	}
	id, err := v.judge(c)
	if err != nil {
		return Identity{}, err
	}
	key, err := v.o.Keys.signer(ctx, header)
	if err != nil {
		return Identity{}, err
	}
	if err := v.proofs.check(ctx, t, cert, key, proof, now); err != nil {
		return Identity{}, err
	}
	id.Until = cert.NotAfter
	if !id.Expires.IsZero() && id.Expires.Before(id.Until) {
		id.Until = id.Expires
	}
	return id, nil
}

// readClaims reads a token without its signature.
func readClaims(message string) (jose.Header, claims, error) {
	var c claims
	// The parser requires a signature, but nothing looks at it.
	tok, err := jwt.ParseSigned(message+".AAAA", signatures)
	if err != nil {
		return jose.Header{}, c, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(tok.Headers) != 1 {
		return jose.Header{}, c, fmt.Errorf("%w: want one signature", ErrInvalid)
	}
	if err := tok.UnsafeClaimsWithoutVerification(&c); err != nil {
		return jose.Header{}, c, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return tok.Headers[0], c, nil
}

// judge checks the claims. Whether they are proved is checked elsewhere.
func (v *Verifier) judge(c claims) (Identity, error) {
	if err := c.validAt(v.now()); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !slices.Contains(c.Audience, Audience) && !slices.Contains(c.Audience, defaultAudience) {
		return Identity{}, fmt.Errorf("%w: its audience is %q, want %q or the default identity", ErrInvalid, []string(c.Audience), Audience)
	}
	if c.AllocID == "" {
		return Identity{}, fmt.Errorf("%w: it names no allocation", ErrInvalid)
	}
	if c.Namespace != v.o.Namespace || !sameJob(v.o.JobID, c.JobID) {
		return Identity{}, fmt.Errorf("%w: it is of job %q in namespace %q, this is job %q in namespace %q", ErrOtherJob, c.JobID, c.Namespace, v.o.JobID, v.o.Namespace)
	}
	id := Identity{Namespace: c.Namespace, JobID: c.JobID, Group: c.group(), Task: c.Task, AllocID: c.AllocID}
	if id.Task == "" || id.Task != v.o.Task && (id.Group == "" || id.Group == v.o.Group) {
		return Identity{}, fmt.Errorf("%w: it is of task %q of group %q, whose agents are in task %q", ErrOtherTask, id.Task, id.Group, v.o.Task)
	}
	if c.Expiry != nil {
		id.Expires = c.Expiry.Time()
	}
	if c.IssuedAt != nil {
		id.Issued = c.IssuedAt.Time()
	}
	return id, nil
}

// validAt returns nil if the claims are valid now, by a clock that may be
// inaccurate.
func (c claims) validAt(now time.Time) error {
	begin, end := c.Claims, c.Claims
	begin.Expiry = nil
	end.NotBefore, end.IssuedAt = nil, nil
	if err := begin.ValidateWithLeeway(jwt.Expected{Time: now}, startLeeway); err != nil {
		return err
	}
	return end.ValidateWithLeeway(jwt.Expected{Time: now}, clockLeeway)
}

// sameJob reports whether an identity's job is ours. In the identity of a
// dispatched or periodic job Nomad writes the parent's ID.
func sameJob(ours, theirs string) bool {
	return theirs != "" && (ours == theirs ||
		strings.HasPrefix(ours, theirs+"/dispatch-") || strings.HasPrefix(ours, theirs+"/periodic-"))
}

// group reads the task group from the subject,
// region:namespace:job:group:task:identity. Job IDs may hold colons, so group
// counts from both ends. It returns "" if the subject has another form.
func (c claims) group() string {
	_, rest, _ := strings.Cut(c.Subject, ":")
	rest, ours := strings.CutPrefix(rest, c.Namespace+":"+c.JobID+":")
	group, named := strings.CutSuffix(rest[:max(strings.LastIndex(rest, ":"), 0)], ":"+c.Task)
	if !ours || !named {
		return ""
	}
	return group
}
