"""Measures a GPU, the code for it, and its peers: `python -m benchmarks.gpu`, or benchmarks/gpu_session.sh."""
