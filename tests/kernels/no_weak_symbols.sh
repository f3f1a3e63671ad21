#!/bin/sh
# no_weak_symbols.sh NM OBJECT…: fails if an object of kernels/isa defines a symbol that the linker may share with
# others. Such a function is compiled for CPU features that the host may lack, and could be the copy everybody gets.
nm=$1
shift
[ $# -gt 0 ] || { echo "no objects given"; exit 1; }
status=0
for object in "$@"; do
  weak=$("$nm" -C "$object" | grep -E ' [VWu] ')
  if [ -n "$weak" ]; then
    echo "$object:"
    echo "$weak"
    status=1
  fi
done
exit $status
