// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
)

var torchrun = Framework{Framework: torch.Agent(), Program: "nomad-driver-torch", Dialect: Torchrun}

// torchPID returns the process that was last given a rank.
func (j *job) torchPID(rank int) int {
	j.t.Helper()
	var text []byte
	j.until("a process of the rank", func(*wire.Status) bool {
		var err error
		text, err = os.ReadFile(filepath.Join(j.pids, "rank."+strconv.Itoa(rank)+".pid"))
		return err == nil
	})
	pid, err := strconv.Atoi(string(text))
	must.NoError(j.t, err)
	return pid
}

func TestTorchJobGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	j := startJobOf(t, torchrun, nil, 0, "a:1")
	j.size(1)
	root := j.torchPID(0)
	j.list("a:2 b:2")
	j.size(4)
	must.Eq(t, root, j.torchPID(0), must.Sprint("rank 0 was not restarted"))
	j.list("a:1 b:1")
	j.size(2)
	j.list("b:1 c:1")
	s := j.until("b and c", func(s *wire.Status) bool { return s.Size == 2 && strings.HasPrefix(s.Ranks[1].Host, "c") })
	must.StrHasPrefix(t, "b", s.Ranks[0].Host, must.Sprint("the one that holds the state leads the ring"))
	s = j.until("steps", func(s *wire.Status) bool { return s.Step != nil && s.Phase == "training" })
	for _, r := range s.Resizes {
		must.Eq(t, new(float64), r.LostSteps, must.Sprintf("%+v", r))
	}
}

func TestTorchJobSurvivesDeaths(t *testing.T) {
	t.Parallel()
	j := startJobOf(t, torchrun, nil, 0, "a:1 b:1 c:1", "-np", "3")
	s := j.size(3)
	for _, rank := range []int{2, 0} {
		resets := s.Resets
		must.NoError(t, syscall.Kill(j.torchPID(rank), syscall.SIGKILL))
		j.until("the survivors to go on", func(s *wire.Status) bool { return s.Resets > resets })
		s = j.until("the dead one to be back", func(s *wire.Status) bool { return s.Resets > resets+1 && s.Phase == "training" && s.Size == 3 })
	}
}

// A spare takes the place of a process that dies, at once. The slot of the dead one is the
// next spare.
func TestTorchSpareReplacesAProcess(t *testing.T) {
	t.Parallel()
	j := startJobOf(t, torchrun, nil, 0, "a:1 b:1 c:1", "-np", "2", "--spare-hosts", "1")
	s := j.size(2)
	for _, rank := range []int{1, 0} {
		j.until("the spare", func(s *wire.Status) bool { return s.SparesReady == 1 })
		resets, dead := s.Resets, s.Ranks[rank].Host
		must.NoError(t, syscall.Kill(j.torchPID(rank), syscall.SIGKILL))
		s = j.until("the spare to train", func(s *wire.Status) bool { return s.Resets > resets && s.Phase == "training" })
		must.Eq(t, resets+1, s.Resets)
		must.Len(t, 2, s.Ranks)
		for _, r := range s.Ranks {
			must.NotEq(t, dead, r.Host)
		}
		s = j.size(2)
	}
	j.list("a:1 b:1 c:1 d:1")
	j.size(3)
	j.list("a:1 b:1")
	j.size(1)
}

// A newcomer dies while its group forms. The others give the group up, and train on
// without it at once.
func TestTorchNewcomerDiesWhileTheGroupForms(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "died")
	j := startJobOf(t, torchrun, map[string]string{dieOnce: marker}, 0, "a:2", "-np", "2", "-slot-restarts", "1")
	j.size(2)
	j.list("a:2 b:1")
	s := j.size(3)
	must.FileExists(t, marker)
	var without *wire.Resize
	for i, r := range s.Resizes {
		if r.Generation == 3 {
			without = &s.Resizes[i]
		}
	}
	must.NotNil(t, without, must.Sprintf("%+v", s.Resizes))
	must.Eq(t, 2, without.To)
	must.Less(t, 5, *without.Gap, must.Sprint("no one waited for a time-out"))
}

func TestTorchJobCompletes(t *testing.T) {
	t.Parallel()
	j := startJobOf(t, torchrun, nil, 100, "a:1 b:1", "-np", "2")
	r := <-j.result
	must.Eq(t, 0, r.Code, must.Sprint(r.Reason))
}

// Neither port answers a process outside the task.
func TestForeignProcessIsNotAnsweredByTorch(t *testing.T) {
	t.Parallel()
	users := []int{os.Getuid()}
	if os.Getuid() == 0 {
		users = append(users, 65534)
	}
	j := startJobOf(t, torchrun, nil, 0, "a:1")
	j.size(1)
	_, fixed := j.spy.endpoint("a").Environment(elastic.Assignment{})
	_, workerPort, _ := strings.Cut(fixed["KOLO_WORKER_ADDR"], ":")
	for _, port := range []string{workerPort, fixed["MASTER_PORT"]} {
		for _, uid := range users {
			n, err := strconv.Atoi(port)
			must.NoError(t, err)
			i := intrudertest.Start(t, n, uid, "read,delete,hold300,flood")
			must.Eq(t, []string{"read unanswered", "delete unanswered", "hold300 done", "flood done"},
				[]string{i.Result(t), i.Result(t), i.Result(t), i.Result(t)})
		}
	}
	j.list("a:2") // the slot itself is answered as before
	j.size(2)
}
