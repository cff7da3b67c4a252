# A server in a container, on the CPU:
#   docker build -t winnow .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/MODEL:/model:ro" winnow
FROM debian:12-slim AS build
WORKDIR /source
COPY scripts/bootstrap scripts/bootstrap
RUN scripts/bootstrap build
COPY . .
RUN make && make install DESTDIR=/image PREFIX=/usr

FROM debian:12-slim
COPY --from=build /image /
USER 65534:65534
EXPOSE 8000
ENTRYPOINT ["winnow"]
# A container's own loopback cannot be reached from outside it: here the server
# listens on every address, and -p says who reaches it.
CMD ["serve", "/model", "--host", "0.0.0.0"]
