Job [[ var "job_name" . ]] trains with [[ var "workers" . ]] worker(s).

  nomad job status [[ var "job_name" . ]]
  nomad job scale [[ var "job_name" . ]] workers 2
