# syntax=docker/dockerfile:1
# Stage 1 builds everything into one folder; stage 2 carries that folder and nothing that built it.
# A release pins the base by digest: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:...
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What runs, then what builds: each only as its lock file has it, to the hash. The first layer changes with the lock.
COPY deploy/requirements.lock deploy/build.lock deploy/
RUN python -m venv --without-pip /opt/estimator \
    && pip --python /opt/estimator/bin/python install --require-hashes --no-deps --only-binary :all: \
        -r deploy/requirements.lock \
    && pip install --require-hashes --no-deps --only-binary :all: -r deploy/build.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY benchmarks_db benchmarks_db
COPY pricing pricing
COPY estimator estimator
COPY api api
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && pip --python /opt/estimator/bin/python install --no-deps --no-index /dist/*.whl \
    && find /opt/estimator -type d \( -name tests -o -name test \) -path '*/site-packages/*' -prune -exec rm -rf {} + \
    && /opt/estimator/bin/python -m compileall -q /opt/estimator

FROM ${PYTHON}
LABEL org.opencontainers.image.title="gpu-cost-estimator" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin estimator \
    && install -d -o estimator -g estimator /data
COPY --from=build /opt/estimator /opt/estimator
ENV PATH=/opt/estimator/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    ESTIMATOR_DATA_DIR=/data
# Only /data and /tmp are written: the rest runs under a read-only root file system.
VOLUME /data
WORKDIR /data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["estimator"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
