[[- $scheme := ternary "https" "http" (var "tls" .) -]]
[[- $namespace := var "namespace" . -]]
The autoscaler runs as the job [[ var "job_name" . ]]. To ask it:

  export KOLO_ADDR=$(nomad service info [[ if $namespace ]]-namespace [[ $namespace ]] [[ end ]]-t '[[ $scheme ]]://{{ (index . 0).Address }}:{{ (index . 0).Port }}' [[ var "job_name" . ]])
  kolo status
[[- if var "read_token" . ]]

That requires a Nomad token (NOMAD_TOKEN). Where ACLs are off, there is none: run the pack with --var read_token=false.
[[- end ]]

Where ACLs are on, its identity needs a policy (docs/howto/use-acls.md):

  nomad acl policy apply -namespace [[ coalesce $namespace "default" ]] -job [[ var "job_name" . ]] kolo jobspecs/kolo.policy.hcl
