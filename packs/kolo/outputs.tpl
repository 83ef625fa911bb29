[[- $scheme := ternary "https" "http" (var "tls" .) -]]
The autoscaler runs as the job [[ var "job_name" . ]]. To ask it:

  export KOLO_ADDR=$(nomad service info -t '[[ $scheme ]]://{{ (index . 0).Address }}:{{ (index . 0).Port }}' [[ var "job_name" . ]])
  kolo status

Where ACLs are on, its identity needs a policy (jobspecs/kolo.policy.hcl):

  nomad acl policy apply -namespace default -job [[ var "job_name" . ]] kolo jobspecs/kolo.policy.hcl
