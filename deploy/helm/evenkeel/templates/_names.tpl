{{/* Metadata of every object in the namespace of the release. */}}
{{- define "evenkeel.metadata" -}}
name: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The service account, as a list of subjects. */}}
{{- define "evenkeel.subjects" -}}
- kind: ServiceAccount
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
{{- end }}
