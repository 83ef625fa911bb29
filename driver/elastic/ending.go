// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// ending is the outcome of the job, once it is decided. It is separate from the phase
// of the ring: after one success the others may still train.
type ending struct {
	End
	since time.Time
	done  bool // no process is left, and End was returned
}

// decide sets the job's outcome. From now on processes are only stopped.
func (m *Machine) decide(e End) {
	if m.end != nil {
		return
	}
	m.end = &ending{End: e, since: m.now}
	m.emit("", "%s", e.Reason)
}

// endProcesses stops all processes once the outcome is decided. After a success the other
// processes get time to exit by themselves, because rank 0 may still write its last
// checkpoint.
func (m *Machine) endProcesses(e *ending) {
	if e.done {
		return
	}
	grace := e.Success && !m.wake(e.since.Add(m.opt.FinishTimeout))
	running := false
	m.each(func(_ *host, p Proc, s *slot) {
		if s.state == Down {
			return
		}
		running = true
		switch {
		case s.state == Waiting:
			m.retire(p, e.Reason)
		case s.state != InRing || !grace:
			m.stop(p, false, "%s", e.Reason)
		}
	})
	if !running {
		e.done = true
		m.do(e.End)
	}
}
