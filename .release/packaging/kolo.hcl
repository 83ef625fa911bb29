# Configuration of the autoscaler. All of it is optional, and what is commented out
# below is the default. kolo.service reads this file and any other *.hcl file in
# /etc/kolo as one; a change is in force within seconds, and a mistake is logged with
# file and line and changes nothing.
#
# How Nomad is reached is in /etc/kolo/environment.

# http {
#   bind = "127.0.0.1"
#   port = 8648
# }

# pool "*" {
#   policy "kolo" {}
# }
