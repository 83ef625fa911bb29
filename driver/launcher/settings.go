// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// settingFlag is a setting as a flag. It keeps the error, so that it reads like
// those of check.
type settingFlag struct {
	settings.Setting
	flag    string
	seconds bool // it is a number of them
	wrong   *[]error
}

func (f *settingFlag) String() string {
	if d, err := time.ParseDuration(f.Default); err == nil && f.seconds {
		return strconv.Itoa(int(d.Seconds()))
	}
	return f.Default
}

func (f *settingFlag) Set(text string) error {
	value := text
	var err error
	if f.seconds {
		value += "s"
		if _, err = strconv.Atoi(text); err != nil {
			err = errors.New("must be a number of seconds")
		}
	}
	if err == nil {
		err = f.Setting.Set(value)
	}
	if err != nil {
		*f.wrong = append(*f.wrong, fmt.Errorf("--%s %s: %w", f.flag, text, err))
	}
	return nil
}

// register declares the flags of the settings. NP and MinNP stay 0 where they are
// not given: here they follow from the hosts, see check.
func (o *flags) register(f *flag.FlagSet) {
	o.env = settings.Env{}
	list := append(o.Bind(), o.dialect.bind(o.env, &o.restart)...)
	if len(o.dialect.names["replica"]) > 0 {
		list = append(list, o.BindReplica())
	}
	o.NP, o.MinNP = 0, 0
	for _, s := range list {
		switch s.Name {
		case "np":
			s.Default = "all slots of -H, else -slots-per-host"
		case "min_np":
			s.Default = "-np"
		}
		doc := s.Doc
		names := o.dialect.names[s.Name]
		for i, name := range names {
			if i > 0 {
				doc = "same as -" + names[0]
			}
			f.Var(&settingFlag{Setting: s, flag: name, seconds: slices.Contains(o.dialect.inSeconds, s.Name), wrong: &o.wrong}, name, doc)
		}
	}
}

// explainFlag adds to an error of package flag what to do about it.
func (o *flags) explainFlag(err error) error {
	switch text := err.Error(); {
	case strings.HasSuffix(text, "-discovery-interval: parse error"):
		return fmt.Errorf(`%w; write it like "5s"`, err)
	case strings.HasSuffix(text, ": parse error"):
		return fmt.Errorf("%w; it must be a number", err)
	case !strings.Contains(text, "not defined"):
		return err
	}
	for old, now := range settings.Renamed {
		if strings.HasSuffix(err.Error(), "-"+old) {
			return fmt.Errorf("%w; it is named -%s", err, now)
		}
	}
	return fmt.Errorf("%w; %s", err, o.dialect.unknown)
}
