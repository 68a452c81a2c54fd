"""Networks that see frames where they are, in GPU memory: preprocessing, network and choice of boxes on one stream.

Nothing here is imported before a PyTorch network is opened on a CUDA device; torch and triton must be installed then.
"""
