# Image of the archive that ./build.sh release makes:
#   ./build.sh release && docker build --tag openmanus .
FROM debian:12-slim AS unpack
RUN apt-get update && apt-get install --yes --no-install-recommends zstd && rm -rf /var/lib/apt/lists/*
COPY dist/openmanus-*-linux-amd64.tar.zst /
RUN mkdir /openmanus && tar --zstd -xf /openmanus-*-linux-amd64.tar.zst -C /openmanus --strip-components=1

FROM debian:12-slim
COPY --from=unpack /openmanus /usr/local
RUN useradd --uid 1000 --create-home openmanus && mkdir /work && chown openmanus /work
USER openmanus
WORKDIR /work
ENTRYPOINT ["openmanus"]
