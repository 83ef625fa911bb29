// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

// Counts holds the amounts of one job, or the sums of several jobs. Slot times are in
// slot-milliseconds. There is no field for idle time, which is the rest of Held; see Idle.
type Counts struct {
	Held       int64 `json:"h,omitempty"`
	Productive int64 `json:"p,omitempty"`
	Starting   int64 `json:"s,omitempty"`
	Resizing   int64 `json:"r,omitempty"`
	Lost       int64 `json:"l,omitempty"`
	Spare      int64 `json:"sp,omitempty"`
	Unknown    int64 `json:"u,omitempty"`
	// Fresh is the part of Unknown since the job's last report. The next report determines
	// its categories.
	Fresh int64 `json:"f,omitempty"`

	Waiting   int64 `json:"w,omitempty"` // milliseconds in which the job had no workers and wanted some
	Resizes   int   `json:"n,omitempty"` // changes of the count that Kolo wrote
	Failures  int   `json:"x,omitempty"` // allocations that failed or were lost
	Evictions int   `json:"e,omitempty"` // suspensions
}

// Idle returns the part of Held that is in no other category.
func (c *Counts) Idle() int64 {
	return c.Held - c.Productive - c.Starting - c.Resizing - c.Lost - c.Spare - c.Unknown
}

// Share returns the productive share: productive time divided by all held time that is not
// unknown. known is false if all held time is unknown.
func (c *Counts) Share() (share float64, known bool) {
	if c.Held <= c.Unknown {
		return 0, false
	}
	return float64(c.Productive) / float64(c.Held-c.Unknown), true
}

// Add adds the amounts of o.
func (c *Counts) Add(o *Counts) {
	c.Held += o.Held
	c.Productive += o.Productive
	c.Starting += o.Starting
	c.Resizing += o.Resizing
	c.Lost += o.Lost
	c.Spare += o.Spare
	c.Unknown += o.Unknown
	c.Fresh += o.Fresh
	c.Waiting += o.Waiting
	c.Resizes += o.Resizes
	c.Failures += o.Failures
	c.Evictions += o.Evictions
}

// hold adds time that is held. It is unknown until the job reports.
func (c *Counts) hold(ms int64) {
	c.Held += ms
	c.Unknown += ms
	c.Fresh += ms
}

// unhold takes back time that was counted after an allocation's end: unknown and idle time
// first.
func (c *Counts) unhold(ms int64) {
	ms = min(ms, c.Held)
	c.Held -= ms
	c.Fresh = max(0, c.Fresh-ms)
	for _, part := range []*int64{&c.Unknown, &c.Spare, &c.Starting, &c.Resizing, &c.Lost, &c.Productive} {
		if over := -c.Idle(); over > 0 {
			*part -= min(over, *part)
		}
	}
	c.Fresh = min(c.Fresh, c.Unknown)
}

// release makes the time since the last report known. It returns how much that is.
func (c *Counts) release() int64 {
	ms := c.Fresh
	c.Unknown -= ms
	c.Fresh = 0
	return ms
}

// claim moves idle time to another category, as far as there is any. It returns how much
// was moved.
func (c *Counts) claim(part func(*Counts) *int64, ms int64) int64 {
	ms = max(0, min(ms, c.Idle()))
	*part(c) += ms
	return ms
}

func productive(c *Counts) *int64 { return &c.Productive }
func starting(c *Counts) *int64   { return &c.Starting }
func resizing(c *Counts) *int64   { return &c.Resizing }
func lost(c *Counts) *int64       { return &c.Lost }
func spare(c *Counts) *int64      { return &c.Spare }
