// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"time"
)

const reachLimit = 20 * time.Second

// reach returns why a vulnerability database cannot be reached, or nil.
func reach(ctx context.Context, db string) error {
	u, err := url.Parse(db)
	if err != nil {
		return err
	}
	if u.Scheme == "file" {
		_, err := os.Stat(u.Path)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("index/db.json.gz").String(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// ignoreExit drops the error of a program that ran and exited with a status.
func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}
