#compdef openmanus
# Completes the commands and flags of openmanus in zsh. Install this file as _openmanus in a folder of $fpath, or:
#   source <(openmanus completion zsh)
_openmanus() {
  local -a call list
  call=("${(@)words[1,CURRENT]}")
  call[1]=${~call[1]}
  # _describe separates a word from its description by a colon.
  list=("${(@f)$("${call[@]}" --generate-bash-completion 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
  if [[ -n $list[1] ]]; then
    _describe openmanus list
  else
    _files
  fi
}
if [[ $funcstack[1] == _openmanus ]]; then
  _openmanus "$@"
else
  compdef _openmanus openmanus
fi
