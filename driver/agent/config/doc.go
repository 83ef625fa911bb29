// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package config is the contract between the driver plugin and the agent that
// it starts in an allocation: the plugin writes a Config as JSON, the agent
// reads it. The local launcher builds one from its flags.
package config
