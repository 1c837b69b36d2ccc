# The command ffn-ablations with everything it needs, for CPUs:
#   docker build -t ffn-ablations .
#   docker run --rm -v "$PWD:/work" -u "$(id -u):$(id -g)" ffn-ablations study run quickstart
# For NVIDIA GPUs, whose libraries come with torch (and with --gpus all behind docker run):
#   docker build --build-arg TORCH=cu130 -t ffn-ablations:gpu .
ARG PYTHON=3.11
FROM python:${PYTHON}-slim

# The variants' kernels are compiled at their first use. Debian removes a package's old versions, so none is named.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

RUN pip install --no-cache-dir uv==0.13.9
ENV UV_SYSTEM_PYTHON=1 UV_NO_CACHE=1 UV_LINK_MODE=copy

# What the project needs changes less often than its code, so it is a layer of its own.
ARG TORCH=cpu
WORKDIR /source
COPY pyproject.toml constraints.txt ./
RUN uv pip install --torch-backend="${TORCH}" -c constraints.txt -r pyproject.toml --extra torch
COPY . .
RUN uv pip install --no-deps . && rm -rf build ./*.egg-info

# Whoever it runs as may keep what it downloads and compiles; results lie in the folder that is mounted.
RUN useradd --create-home --uid 1000 user && chmod 0777 /home/user && mkdir /work && chown user /work
ENV HOME=/home/user
USER 1000
WORKDIR /work
ENTRYPOINT ["ffn-ablations"]
CMD ["--help"]
