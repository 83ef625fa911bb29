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

// ErrInterrupted is returned by what would start something while this process
// ends on a signal.
var ErrInterrupted = errors.New("this process was interrupted")

// running has the clusters of this process, so that Ctrl-C and the like end it
// only once all of them are gone. (The reapers would clean up anyway, but behind
// the back of a shell that has its prompt again.) Whoever starts a process of a
// cluster holds the lock for reading: what starts after the cluster was cleaned
// up would stay.
var running = struct {
	sync.RWMutex
	clusters    map[*Cluster]bool
	interrupted bool
	handle      sync.Once
}{clusters: map[*Cluster]bool{}}

// admit adds the cluster, of which nothing exists yet, to those running.
func admit(c *Cluster) error {
	running.handle.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		go func() {
			sig := (<-signals).(syscall.Signal)
			signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends this process at once
			stopAll(sig)
			_ = syscall.Kill(os.Getpid(), sig)
			time.Sleep(time.Second)
			// This process was started with the signal ignored, as scripts start jobs with &.
			os.Exit(128 + int(sig)) //nolint:forbidigo // it has to end as if by the signal
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

// forget is for a cluster that is gone.
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

// stopAll stops all clusters, those that are starting, too.
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
			_ = c.Stop() // where that fails, there is no one to return it to
		})
	}
	wg.Wait()
}
