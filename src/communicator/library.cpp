// The shared library has no code of its own: it is all of the layers, linked whole.
