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

// settingFlag is a setting as a flag. It keeps its error, so that it is reported like those
// of check.
type settingFlag struct {
	settings.Setting
	flag    string
	seconds bool // the value is a number of seconds
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

// register declares the flags of the settings. NP and MinNP stay 0 if not given, because
// here they follow from the hosts, see check.
func (o *flags) register(f *flag.FlagSet) {
	o.env = settings.Env{}
	list := slices.Concat(o.Bind(), o.dialect.bind(o), []settings.Setting{
		settings.Count(&o.slots, "slots_per_host", 1, 1, "slots of hosts for which no number is given"),
		settings.Time(&o.interval, "discovery_interval", time.Second, 0, "time between two runs of the discovery script"),
	})
	o.NP, o.MinNP = 0, 0
	for _, s := range list {
		if slices.Contains(taskOnly, s.Name) {
			continue
		}
		switch s.Name {
		case "np":
			s.Default = "all slots of -H, else -slots-per-host"
		case "min_np":
			s.Default = "-np"
		}
		name := flagOf(s.Name)
		f.Var(&settingFlag{Setting: s, flag: name, seconds: slices.Contains(o.dialect.inSeconds, s.Name), wrong: &o.wrong}, name, s.Doc)
	}
}

// taskOnly are the settings of a task that are not flags. Each host has its own number of
// slots, and run waits for a leaving host, and for the others at the end, as long as tasks
// do by default.
var taskOnly = []string{"slots", "finish_timeout", "leave_timeout"}

// flagOf returns the name of a setting's flag.
func flagOf(setting string) string { return strings.ReplaceAll(setting, "_", "-") }

// explainFlag adds a remedy to an error of f.Parse(args).
func (o *flags) explainFlag(err error, f *flag.FlagSet, args []string) error {
	name, unknown := settings.Undefined(f, args, err)
	switch now := settings.Renamed[name]; {
	case !unknown:
		return err
	case now != "":
		return fmt.Errorf("%w; it is named -%s", err, now)
	}
	return fmt.Errorf("%w; %s", err, o.dialect.unknown)
}
