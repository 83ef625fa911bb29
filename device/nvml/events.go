// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// healthEvents are the events that affect health.
const healthEvents = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError

type realWatch struct {
	r   *Real
	set nvml.EventSet
	// uuids holds UUIDs by handle, because a GPU that has fallen off the bus can no
	// longer be queried.
	uuids map[nvml.Device]string
}

// Watch starts to listen for events of the GPUs.
func (r *Real) Watch(gpus []GPU) (Watch, map[int]error, error) {
	w := &realWatch{r: r, uuids: map[nvml.Device]string{}}
	err := r.do("nvmlEventSetCreate", func() (ret nvml.Return) {
		w.set, ret = r.lib.EventSetCreate()
		return ret
	})
	if err != nil {
		return nil, nil, err
	}
	failed := map[int]error{}
	for i, gpu := range gpus {
		g, ok := gpu.(*realGPU)
		if !ok {
			failed[i] = fmt.Errorf("%T is not a GPU of this library", gpu)
			continue
		}
		can, err := get(g, "nvmlDeviceGetSupportedEventTypes", g.d.GetSupportedEventTypes)
		if err == nil && can&healthEvents == 0 {
			err = &Error{Op: "nvmlDeviceGetSupportedEventTypes", Code: ErrNotSupported}
		}
		if err == nil {
			w.uuids[g.d], err = get(g, "nvmlDeviceGetUUID", g.d.GetUUID)
		}
		if err == nil {
			err = r.do("nvmlDeviceRegisterEvents", func() nvml.Return {
				return g.d.RegisterEvents(can&healthEvents, w.set)
			})
		}
		if err != nil {
			failed[i] = err
		}
	}
	return w, failed, nil
}

// Next waits for an event.
func (w *realWatch) Next(wait time.Duration) (Event, bool, error) {
	var data nvml.EventData
	err := w.r.do("nvmlEventSetWait_v2", func() (ret nvml.Return) {
		data, ret = w.set.Wait(uint32(wait.Milliseconds()))
		return ret
	})
	if err != nil {
		if errors.Is(err, ErrTimedOut) {
			return Event{}, false, nil
		}
		return Event{}, false, err
	}
	e := Event{Kind: EventXID, XID: data.EventData, GI: -1, CI: -1}
	if data.EventType == nvml.EventTypeDoubleBitEccError {
		e.Kind = EventDoubleBit
	}
	if data.GpuInstanceId != math.MaxUint32 {
		e.GI = int(data.GpuInstanceId)
	}
	if data.ComputeInstanceId != math.MaxUint32 {
		e.CI = int(data.ComputeInstanceId)
	}
	e.UUID = w.uuids[data.Device] // empty if the event is for any GPU
	return e, true, nil
}

// Close ends the watch.
func (w *realWatch) Close() error {
	return w.r.do("nvmlEventSetFree", func() nvml.Return { return w.set.Free() })
}
