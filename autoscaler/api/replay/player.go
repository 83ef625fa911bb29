// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package replay

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// mostSpeed is the highest speed: an hour in a second.
const mostSpeed = 3600

// player is a position in recorded time that moves on by itself. It is a value: changes make
// another one.
type player struct {
	from, to time.Time
	at       time.Time // the position at since
	since    time.Time
	playing  bool
	speed    float64
	jumps    int // how often the position was set
}

// position returns the position now.
func (p player) position(now time.Time) time.Time {
	if !p.playing {
		return p.at
	}
	// Compared as numbers, because a long time at a high speed is beyond a Duration.
	past := max(0, now.Sub(p.since).Seconds()) * p.speed
	if past >= p.to.Sub(p.at).Seconds() {
		return p.to
	}
	return p.at.Add(time.Duration(past * float64(time.Second)))
}

// state returns what the API says.
func (p player) state(now time.Time) api.Replay {
	at := p.position(now)
	return api.Replay{From: p.from.UTC(), To: p.to.UTC(), At: at.UTC().Truncate(time.Millisecond), Playing: p.playing && at.Before(p.to), Speed: p.speed}
}

// set returns the player after a change. Playing from the end begins again.
func (p player) set(c api.SetReplay, now time.Time) (player, error) {
	p.at, p.since = p.position(now), now
	p.playing = p.playing && p.at.Before(p.to)
	if c.Speed != nil {
		if !(*c.Speed > 0 && *c.Speed <= mostSpeed) {
			return p, fmt.Errorf("speed: %g is not between 0 and %d", *c.Speed, mostSpeed)
		}
		p.speed = *c.Speed
	}
	if c.At != nil {
		p.at, p.jumps = *c.At, p.jumps+1
		if p.at.Before(p.from) {
			p.at = p.from
		}
		if p.at.After(p.to) {
			p.at = p.to
		}
	}
	if c.Playing != nil {
		if p.playing = *c.Playing; p.playing && !p.at.Before(p.to) {
			p.at, p.jumps = p.from, p.jumps+1
		}
	}
	return p, nil
}
