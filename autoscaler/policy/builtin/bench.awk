# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

# Makes a table of what `go test -bench Allocate` prints: a row for each
# policy, a column for each number of jobs and GPUs.

function thousands(n) {
	return n + 0 < 1000 ? n "" : thousands(int(n / 1000)) sprintf(",%03d", n % 1000)
}

/^BenchmarkAllocate\// {
	split($1, part, "/")
	policy = part[2]
	jobs = part[3]; sub(/.*=/, "", jobs)
	gpus = part[4]; sub(/.*=/, "", gpus); sub(/-[0-9]+$/, "", gpus)
	column = thousands(jobs) " × " thousands(gpus)
	if (!(policy in memory)) policies[++rows] = policy
	if (!(column in seen)) { seen[column]; columns[++count] = column }
	ms = $3 / 1e6
	time[policy, column] = sprintf(ms < 10 ? "%.2f" : "%.0f", ms)
	memory[policy] = sprintf("%.1f, %s", $5 / 1e6, thousands($7)) # of the last, the largest
}

END {
	printf "| policy |"
	for (c = 1; c <= count; c++) printf " %s |", columns[c]
	printf " MB, allocations |\n|---|"
	for (c = 0; c <= count; c++) printf "---:|"
	printf "\n"
	for (r = 1; r <= rows; r++) {
		printf "| `%s` |", policies[r]
		for (c = 1; c <= count; c++) printf " %s |", time[policies[r], columns[c]]
		printf " %s |\n", memory[policies[r]]
	}
}
