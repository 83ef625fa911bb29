// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
)

// services holds the services of jobs that have completed, as the autoscaler remembers them.
type services struct {
	pool  learned
	kinds map[string]*learned // by App, if Info.Kinds is set
	// tenants holds the services by namespace, if there are several.
	tenants map[string]*learned
}

// learned holds the last services of a set of jobs, newest last.
type learned struct {
	services []float64
	sample   length.Sample
}

// add adds the service of a job that has just completed.
func (l *learned) add(origin length.Origin, service float64) {
	limit := length.Limit
	if origin == length.Kind {
		limit = length.KindLimit
	}
	l.services = length.Append(l.services, service, limit)
	l.sample = length.NewSample(origin, l.services)
}

// learnService remembers the service of a job that has just completed.
func (e *engine) learnService(j *job) {
	add := func(m *map[string]*learned, name string, origin length.Origin) {
		if name == "" {
			return
		}
		if *m == nil {
			*m = map[string]*learned{}
		}
		if (*m)[name] == nil {
			(*m)[name] = &learned{}
		}
		(*m)[name].add(origin, j.result.Attained)
	}
	e.ended.pool.add(length.Pool, j.result.Attained)
	add(&e.ended.tenants, j.Tenant, length.Namespace)
	if e.cfg.Info.Kinds {
		add(&e.ended.kinds, j.App, length.Kind)
	}
}

// alikeOf describes the completed jobs that are most similar to a job.
func (e *engine) alikeOf(j *job) length.Sample {
	if e.cfg.Present != nil {
		return e.cfg.Present.Jobs[j.num].Alike
	}
	of := func(m map[string]*learned, name string) length.Sample {
		if l := m[name]; l != nil {
			return l.sample
		}
		return length.Sample{}
	}
	return length.Best(of(e.ended.kinds, j.App), of(e.ended.tenants, j.Tenant), e.ended.pool.sample)
}

// wrong returns the factor by which the disclosed remaining work of a job is wrong.
func (i Info) wrong(seed uint64, id string) float64 {
	if i.LengthError == 0 {
		return 1
	}
	return math.Exp(i.LengthError * draw(seed, id, 0))
}
