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

{{/* Whether the process starts steps as jobs. */}}
{{- define "isthmus.startsJobs" -}}
{{- if and (eq .name "code-server") (eq .root.Values.executor "kubernetes") }}true{{ end -}}
{{- end -}}

{{- define "isthmus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "isthmus.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Variables of the code server and of its steps. */}}
{{- define "isthmus.files" -}}
{{- range $variable, $file := .process.files }}
- name: {{ $variable }}
  value: /run/secrets/isthmus/{{ $file }}
{{- end }}
{{- if include "isthmus.startsJobs" . }}
- name: ISTHMUS_EXECUTOR
  value: kubernetes
- name: ISTHMUS_KUBERNETES_CONFIG
  value: /etc/isthmus-steps/kubernetes.yaml
{{- end }}
{{- end -}}

{{- define "isthmus.mounts" -}}
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
{{- if include "isthmus.startsJobs" . }}
- name: steps
  mountPath: /etc/isthmus-steps
  readOnly: true
{{- end }}
{{- end -}}

{{- define "isthmus.volumes" -}}
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
{{- if include "isthmus.startsJobs" . }}
- name: steps
  configMap:
    name: isthmus-steps
{{- end }}
{{- end -}}

{{/* Pod of a process: root, name, process. */}}
{{- define "isthmus.pod" -}}
{{- if include "isthmus.startsJobs" . }}
serviceAccountName: isthmus-code-server
automountServiceAccountToken: true
{{- else }}
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
{{- with .process.stopSeconds }}
terminationGracePeriodSeconds: {{ . }}
{{- end }}
securityContext:
  {{- include "isthmus.podSecurity" . | nindent 2 }}
containers:
  - name: {{ .name }}
    image: {{ .root.Values.image }}
    args: {{ .process.args | toJson }}
    securityContext:
      {{- include "isthmus.containerSecurity" . | nindent 6 }}
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
      {{- include "isthmus.files" . | nindent 6 }}
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
      {{- include "isthmus.mounts" . | nindent 6 }}
volumes:
  {{- include "isthmus.volumes" . | nindent 2 }}
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
