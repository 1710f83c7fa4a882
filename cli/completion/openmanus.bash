# Completes the commands and flags of openmanus in bash:
#   source <(openmanus completion bash)
_openmanus() {
  local current=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
  words[0]=${words[0]/#~/$HOME}
  mapfile -t COMPREPLY < <(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null | cut -f 1)" -- "$current")
}
complete -o bashdefault -o default -F _openmanus openmanus
