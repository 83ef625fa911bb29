#compdef kolo
# Completion of kolo in zsh: kolo itself answers.
local -a answers
answers=(${(f)"$(COMP_LINE="${(j: :)words[1,CURRENT]}" kolo 2>/dev/null)"})
compadd -a answers
