FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What berth_build_info and traces say. The repository is not in here to ask.
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X 'main.builtAs=${VERSION}'" -o /worker ./cmd/worker

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /worker /worker
USER 65532:65532
# There is nothing else in the image that could ask.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/worker", "healthcheck"]
ENTRYPOINT ["/worker"]
CMD ["run"]
