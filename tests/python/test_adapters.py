"""What needs no framework: the examples' configurations are valid, and adapters say what is missing. The adapters are
tested with the real frameworks by `make check-python`."""

import support

import lk

EXAMPLES = {"pytorch": "torch", "huggingface": "huggingface", "lightning": "lightning", "torchtitan": "torchtitan",
            "megatron": "megatron", "nemo": "nemo", "jax": "jax"}


def examples(box):
    """Each example passes `lanekeeper config check`, where its data is what `make demo` makes."""
    for name in ("docs", "man"):
        box.dataset(f"build/demo/data/{name}", lk.prose(1, 50), 2)
    folder = support.ROOT / "conf" / "examples"
    lk.same(sorted(p.stem for p in folder.glob("*.yaml")), sorted(EXAMPLES), "an example for each adapter")
    for name, module in EXAMPLES.items():
        config = box.write(f"conf/examples/{name}.yaml", (folder / f"{name}.yaml").read_text())
        lk.same(box.tool("index", config).returncode, 0, f"{name}: indexed")
        done = box.tool("config", "check", config)
        lk.check(done.returncode == 0 and "stream digest" in done.stdout, f"{name}: config check", done.stderr[-300:])
        lk.check((support.PACKAGE / "lanekeeper" / "adapters" / f"{module}.py").exists(), f"{name}: its adapter")


def absent(box):
    """Without its framework an adapter names it; the package alone imports none."""
    code = """
        import importlib, sys
        import lanekeeper.adapters
        assert not {"torch", "jax", "transformers", "lightning"} & set(sys.modules)
        for name in ("torch", "torchdata", "accelerate", "transformers", "lightning", "pytorch_lightning", "megatron", "torchtitan", "jax"):
            sys.modules[name] = None
        for name in sys.argv[1:]:
            try:
                importlib.import_module("lanekeeper.adapters." + name)
                print(name, "was imported")
            except ImportError as error:
                print(name, error.name)"""
    status, out, err = support.said(support.python(box, code, *sorted(EXAMPLES.values())))
    said = dict(line.split(maxsplit=1) for line in out.splitlines())
    lk.same((status, said), (0, {"huggingface": "torch", "jax": "jax", "lightning": "torch", "megatron": "torch",
                                 "nemo": "torch", "torch": "torch", "torchtitan": "torch"}), "what is missing is named" + err[-200:])


def deployed(box):
    """The Slurm script can be read, and the configuration in the manifest is valid."""
    manifest = (support.ROOT / "deploy" / "kubernetes" / "train.yaml").read_text()
    done = support.subprocess.run(["bash", "-n", support.ROOT / "deploy" / "slurm" / "train.sbatch"], capture_output=True, text=True)
    lk.same((done.returncode, done.stderr), (0, ""), "the Slurm script is one for bash")
    box.dataset("corpus/docs", lk.prose(1, 50), 2)
    inner = manifest.split("lanekeeper.yaml: |\n", 1)[1].split("\n---", 1)[0]
    text = "".join(line[4:] + "\n" for line in inner.splitlines())
    text = text.replace("{hf: /corpus/tokenizer.json, append: eos}", "{bytes: true, append: eos}").replace("/corpus", str(box.path / "corpus")).replace("/scratch", str(box.path / "scratch"))
    config = box.write("lanekeeper.yaml", text)
    lk.same(box.tool("index", config).returncode, 0, "the manifest's configuration is indexed")
    done = box.tool("config", "check", config)
    lk.check(done.returncode == 0, "and checked", done.stderr[-300:])


if __name__ == "__main__":
    support.main([examples, absent, deployed])
