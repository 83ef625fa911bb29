// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// ErrInterrupted is returned by functions that start something, once a signal is ending
// this process.
var ErrInterrupted = errors.New("this process was interrupted")

// running holds the clusters of this process, so that Ctrl-C and the like end it only once all of
// them are gone. (The reapers would clean up anyway, but only after the shell shows its prompt
// again.) Hold the lock for reading to start a process of a cluster: a process that starts after
// the cluster was cleaned up would remain.
var running = struct {
	sync.RWMutex
	clusters    map[*Cluster]bool
	interrupted bool
	handle      sync.Once
}{clusters: map[*Cluster]bool{}}

// admit adds a cluster, of which nothing exists yet, to the running ones.
func admit(c *Cluster) error {
	running.handle.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		go func() {
			sig := (<-signals).(syscall.Signal)
			signal.Reset(os.Interrupt, syscall.SIGTERM) // a second signal ends this process at once
			stopAll(sig)
			_ = syscall.Kill(os.Getpid(), sig)
			time.Sleep(time.Second)
			// This process was started with the signal ignored, as scripts start jobs with &.
			os.Exit(128 + int(sig)) //nolint:forbidigo // it must end as if by the signal
		}()
	})
	running.Lock()
	defer running.Unlock()
	if running.interrupted {
		return ErrInterrupted
	}
	running.clusters[c] = true
	return nil
}

// forget removes a cluster that is gone.
func forget(c *Cluster) {
	running.Lock()
	defer running.Unlock()
	delete(running.clusters, c)
}

// unlessInterrupted calls start, which starts a process of a cluster.
func unlessInterrupted(start func() error) error {
	running.RLock()
	defer running.RUnlock()
	if running.interrupted {
		return ErrInterrupted
	}
	return start()
}

// stopAll stops all clusters, including those that are starting.
func stopAll(sig os.Signal) {
	running.Lock()
	running.interrupted = true
	clusters := running.clusters
	running.clusters = map[*Cluster]bool{}
	running.Unlock()
	if len(clusters) > 0 {
		fmt.Fprintf(os.Stderr, "cluster: stopping %d on %s\n", len(clusters), sig)
	}
	var wg sync.WaitGroup
	for c := range clusters {
		wg.Go(func() {
			c.cancel()
			<-c.started
			_ = c.Stop() // there is no one to return an error to
		})
	}
	wg.Wait()
}
