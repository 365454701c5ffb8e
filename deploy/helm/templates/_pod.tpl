{{- define "isthmus.namespace" -}}
{{- if eq .name "relay-server" }}{{ .root.Values.relayNamespace }}{{ else }}{{ .root.Release.Namespace }}{{ end -}}
{{- end -}}

{{- define "isthmus.labels" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "isthmus.metadata" -}}
name: isthmus-{{ .name }}
namespace: {{ include "isthmus.namespace" . }}
labels:
  {{- include "isthmus.labels" . | nindent 2 }}
{{- end -}}

{{/* Pod of a process: root, name, process. */}}
{{- define "isthmus.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .process.stopSeconds }}
terminationGracePeriodSeconds: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: {{ .name }}
    image: {{ .root.Values.image }}
    args: {{ .process.args | toJson }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    env:
      {{- if ne .name "migrate" }}
      - name: ISTHMUS_CONFIG
        value: /etc/isthmus/isthmus.toml
      {{- end }}
      {{- if eq .name "api" }}
      - name: ISTHMUS_PROXIES
        value: "1"
      {{- end }}
      {{- if has .name (list "daemon" "page") }}
      - name: ISTHMUS_CODE_SERVER_HOST
        value: isthmus-code-server
      {{- if index .root.Values.processes "relay-server" }}
      - name: ISTHMUS_RELAY_SERVER_HOST
        value: isthmus-relay-server.{{ .root.Values.relayNamespace }}
      {{- end }}
      {{- end }}
      {{- with .process.metrics }}
      - name: {{ .variable }}
        value: 0.0.0.0:{{ .port }}
      {{- end }}
      {{- range $variable, $file := .process.files }}
      - name: {{ $variable }}
        value: /run/secrets/isthmus/{{ $file }}
      {{- end }}
    resources:
      requests:
        cpu: 100m
        memory: 256Mi
      limits:
        memory: {{ .process.memory }}
    {{- with .process.port }}
    ports:
      - name: main
        containerPort: {{ . }}
      {{- with $.process.metrics }}
      - name: metrics
        containerPort: {{ .port }}
      {{- end }}
    {{- end }}
    {{- if ne .name "migrate" }}
    {{- $probe := include "isthmus.probe" . }}
    startupProbe:
      {{- $probe | nindent 6 }}
      periodSeconds: 10
      failureThreshold: 30
    livenessProbe:
      {{- $probe | nindent 6 }}
      periodSeconds: 60
      failureThreshold: 5
    readinessProbe:
      {{- $probe | nindent 6 }}
      periodSeconds: 30
    {{- end }}
    volumeMounts:
      - name: temporary
        mountPath: /tmp
      - name: state
        mountPath: /var/lib/isthmus
      - name: secrets
        mountPath: /run/secrets/isthmus
        readOnly: true
      {{- if ne .name "migrate" }}
      - name: configuration
        mountPath: /etc/isthmus
        readOnly: true
      {{- end }}
volumes:
  - name: temporary
    emptyDir: {}
  - name: state
    emptyDir: {}
  - name: secrets
    secret:
      secretName: isthmus-{{ .name }}
      defaultMode: 0440
  {{- if ne .name "migrate" }}
  - name: configuration
    configMap:
      name: isthmus
  {{- end }}
{{- end -}}

{{- define "isthmus.probe" -}}
{{- if eq .name "api" -}}
httpGet:
  path: /healthz
  port: main
{{- else if has .name (list "code-server" "relay-server") -}}
grpc:
  port: {{ .process.port }}
  service: DagsterApi
{{- else -}}
exec:
  command: [isthmus, alive, {{ .name }}]
{{- end }}
timeoutSeconds: 30
{{- end -}}
