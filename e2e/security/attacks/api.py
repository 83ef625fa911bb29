# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Commands the autoscaler, whose API is on the client's loopback.

usage: api.py <URL of the API> [a Nomad token]
"""
import sys
import urllib.error
import urllib.request

from findings import attempt, report

address, *tokens = sys.argv[1:]


def command(path, body):
    request = urllib.request.Request(address + path, method="PUT", data=body.encode(),
                                     headers={"Content-Type": "application/json", **{"X-Nomad-Token": t for t in tokens}})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return f"{answer.status}"
    except urllib.error.HTTPError as e:
        raise PermissionError(f"{e.code}: {e.read(300).decode()}") from e


attempt("pause every job", lambda: command("/v1/pause", "{}"))
attempt("change the policy", lambda: command("/v1/policy", '{"pool":"default","policy":"fifo"}'))
attempt("reload the configuration", lambda: command("/v1/reload", ""))
report()
