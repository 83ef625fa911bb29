# Completion of kolo in bash: kolo itself answers.
complete -o nospace -C kolo kolo
