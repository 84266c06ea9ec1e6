{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "muster.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What is the same for every pod. Without enableServiceLinks: false Kubernetes would put MUSTER_SERVICE_HOST and its like into the
     environment, and muster refuses a MUSTER_ variable that it does not know. */}}
{{- define "muster.pod" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "muster.container" -}}
image: {{ include "muster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Restarted when the loop hangs, routed around while it cannot serve; the first start may replay a long log. */}}
{{- define "muster.probes" -}}
{{- $scheme := .Values.tls.enabled | ternary "HTTPS" "HTTP" -}}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 5
{{- end }}

{{- define "muster.names" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}

{{- define "muster.config" -}}
{{- if .config }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "muster.labels" . | nindent 4 }}
data:
  {{ .component }}.toml: |
    {{- .config | nindent 4 }}
---
{{- end }}
{{- end }}
