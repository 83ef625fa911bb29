# Completion of kolo in fish: kolo itself answers.
function __kolo_answers
    set -lx COMP_LINE (commandline --current-process --cut-at-cursor)
    kolo 2>/dev/null
end
complete --command kolo --arguments '(__kolo_answers)'
