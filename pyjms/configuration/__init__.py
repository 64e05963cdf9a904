"""Configuration files: strict YAML with locations, profiles, environment, `${...}`, clear errors.

Theory of operation
-------------------

Reads the settings of both packages (`application.yaml`, `broker.yaml`). A configuration is built
in layers, each of which overrides the layers before it:

    NAME.yaml                    reader: strict YAML, every value with file and line
    NAME-PROFILE.yaml ...        reader: one for each profile, the last on top
    PREFIX_A__B__C=value         reader: environment variables, by the path of the key
    ${NAME}, ${NAME:default}     placeholders: replaced in the merged result
    ENC(...)                     encryption: decrypted after that
    pydantic model               validation: validated, all problems reported together

Mappings of two layers are merged, everything else is replaced, including lists: if lists were
merged by index, the result would depend on the lengths of the lists in other layers. A `Document`
carries the *origin* of every value through all layers, so that an error names the file and line, or
the environment variable, of exactly the value that is wrong, even if pydantic detects it at the
end.

Placeholders are resolved once, after merging, so that a value of one layer may refer to a key of
another. Values from the environment are literal: placeholders in them are not replaced.

No stage stops at its first problem: `document.Problems` collects the problems of all stages, and
a value that one stage has rejected is not checked by the next.

The modules only read files and the mapping that is passed as the environment. Every problem is a
ConfigurationException. Commands that read no settings are not to load pydantic and the YAML parser,
so this package imports nothing.
"""
