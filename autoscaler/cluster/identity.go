// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Errors of Identify.
var (
	// ErrNoACL is returned if access control is off in Nomad. It then accepts any
	// token, so a token proves nothing.
	ErrNoACL = errors.New("access control is off in Nomad")
	// ErrUnknownToken is returned if Nomad does not accept the token.
	ErrUnknownToken = errors.New("the token is unknown to Nomad, or has expired")
)

// Identify asks Nomad who owns a token. It returns the owner's name for logs. The name
// never contains the token.
func (c *Client) Identify(ctx context.Context, token string) (string, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	q := (&api.QueryOptions{AuthToken: token}).WithContext(ctx)
	self, _, err := c.ACLTokens().Self(q)
	switch {
	case err == nil && self.AccessorID == "acls-disabled", disabled(err):
		return "", ErrNoACL
	case err == nil && (self.AccessorID == "" || self.AccessorID == "anonymous"):
		return "", ErrUnknownToken
	case err == nil:
		return fmt.Sprintf("token %s (%s)", self.AccessorID, self.Name), nil
	}
	// The first request does not know workload identities and answers 500 to text that
	// is no token. This request tells them apart.
	if _, err := c.Raw().Query("/v1/acl/policy/self", new(json.RawMessage), q); err != nil {
		if class := Classify(err); class == Forbidden || class == Refused || class == Gone {
			return "", ErrUnknownToken
		}
		return "", fmt.Errorf("asking Nomad whose token it is: %w", err)
	}
	return workload(token), nil
}

// disabled reports whether an error is the answer of Nomad before 1.11 with access
// control off.
func disabled(err error) bool {
	var resp api.UnexpectedResponseError
	return errors.As(err, &resp) && resp.HasStatusCode() && resp.StatusCode() == http.StatusBadRequest && strings.Contains(resp.Body(), "ACL support disabled")
}

// workload returns the task that a workload identity belongs to. Nomad has verified the
// token.
func workload(token string) string {
	var claims struct {
		Namespace string `json:"nomad_namespace"`
		Job       string `json:"nomad_job_id"`
		Alloc     string `json:"nomad_allocation_id"`
		Task      string `json:"nomad_task"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "workload"
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Alloc == "" {
		return "workload"
	}
	return fmt.Sprintf("workload %s/%s task %s alloc %s", claims.Namespace, claims.Job, claims.Task, claims.Alloc)
}

// MayRead asks Nomad whether a token may read the jobs of a namespace (capability
// read-job). It requests the summary of one, a job in that namespace, because that is
// the smallest answer that requires this capability. It also returns true if the job
// does not exist.
func (c *Client) MayRead(ctx context.Context, token string, one identity.JobKey) (bool, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	_, _, err := c.Jobs().Summary(one.ID, (&api.QueryOptions{Namespace: one.Namespace, AuthToken: token}).WithContext(ctx))
	switch class := Classify(err); {
	case err == nil, class == Gone:
		return true, nil
	case class == Forbidden:
		return false, nil
	}
	return false, fmt.Errorf("asking Nomad whether the token may read the namespace %s: %w", one.Namespace, err)
}
