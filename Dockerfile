# sttau serve in a container: no root, no writable file system but /tmp.
#   docker build -t sttau .
#   docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 -v "$PWD/quickstart/models:/models:ro" -e STTAU_TOKEN=… sttau
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt ".[serve]" && useradd --uid 10001 --no-create-home sttau
USER 10001
# Compiled kernels and fonts are cached here: everything else is read-only.
ENV NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["sttau", "serve", "--host", "0.0.0.0"]
CMD ["/models"]
