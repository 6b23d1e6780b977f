"""One rank of the torch tests: runs the scenarios of several modules in one process, because importing torch is what costs.

    torch_run.py module[:scenario,...] ...
"""

import importlib
import json
import sys

import torch_common


def main():
    chosen = {}
    for argument in sys.argv[1:]:
        module, _, names = argument.partition(":")
        importlib.import_module(module)
        chosen[module] = names.split(",") if names else []
    print(json.dumps(torch_common.run(chosen)))


if __name__ == "__main__":
    main()
