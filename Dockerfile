# syntax=docker/dockerfile:1
# Stage 1 builds everything into one folder; stage 2 carries that folder and nothing that built it.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/estimator
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY benchmarks_db benchmarks_db
COPY pricing pricing
COPY estimator estimator
COPY api api
RUN /opt/estimator/bin/pip install --no-cache-dir '.[server,fit,postgres,aws,gcp]' \
    && /opt/estimator/bin/python -m compileall -q /opt/estimator

FROM python:3.11-slim
LABEL org.opencontainers.image.title="gpu-cost-estimator" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin estimator \
    && install -d -o estimator -g estimator /data
COPY --from=build /opt/estimator /opt/estimator
ENV PATH=/opt/estimator/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ESTIMATOR_DATA_DIR=/data
# Only /data is written: the rest runs under a read-only root file system.
VOLUME /data
WORKDIR /data
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["estimator"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
