# Completes the commands and flags of openmanus in fish:
#   openmanus completion fish | source
function __openmanus_words
    set -l words (commandline -opc) "$(commandline -ct)"
    set -l program $words[1]
    eval $program (string escape -- $words[2..]) --generate-bash-completion 2>/dev/null
end
complete -c openmanus -a '(__openmanus_words)'
