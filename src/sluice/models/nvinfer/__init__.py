"""nvinfer's configuration files as models: parsed, checked and done as nvinfer does them, without its C++ libraries."""
