# The gateway alone: no model server, no compiler, not root.
#
#     docker build -t gateway .
#     docker run -p 8080:8080 -v ./config.yaml:/etc/gateway/config.yaml:ro gateway
#
# In that file 127.0.0.1 is the container itself: name the upstreams as they are seen from inside.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml setup.cfg README.md ./
COPY gateway ./gateway
RUN python -m venv /opt/gateway \
    && /opt/gateway/bin/pip install --no-cache-dir ".[redis,otel]"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home gateway
COPY --from=build /opt/gateway /opt/gateway
USER 10001
EXPOSE 8080 8081
# The admin listener's address is the configuration's; inside a container it is 0.0.0.0, or nobody
# outside can reach it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["/opt/gateway/bin/python", "-c", \
         "import urllib.request as web; web.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/gateway/bin/python", "-m", "gateway"]
CMD ["serve", "--config", "/etc/gateway/config.yaml", "--host", "0.0.0.0", "--log-format", "json"]
