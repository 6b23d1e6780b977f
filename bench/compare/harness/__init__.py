"""The driver of bench/compare: starts contestants, gives them turns, compares their times."""
