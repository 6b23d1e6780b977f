"""The tests need the built package: PYTHONPATH=build/<preset>/python, as ctest sets it, or an installed wheel."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
