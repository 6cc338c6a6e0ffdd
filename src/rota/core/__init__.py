"""The vocabulary: values that cross a boundary, ports, errors, the registry. Imports nothing of Rota."""
