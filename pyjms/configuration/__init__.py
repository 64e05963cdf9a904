"""Configuration files: strict YAML with locations, profiles, environment, `${...}`, clear errors.

Theory of operation
-------------------

Reads the settings of both packages (`application.yaml`, `broker.yaml`). A configuration is built
in layers, each of which overrides the layers before it:

    NAME.yaml                    reader: strict YAML, every value with file and line
    NAME-PROFILE.yaml ...        layers: one for each profile, the last on top
    PREFIX_A__B__C=value         layers: environment variables, by the path of the key
    ${NAME}, ${NAME:default}     placeholders: replaced in the merged result
    ENC(...)                     encryption: decrypted after that
    pydantic model               problems: validated, all problems reported together

Mappings of two layers are merged, everything else is replaced, including lists: if lists were
merged by index, the result would depend on the lengths of the lists in other layers. A `Document`
carries the *origin* of every value through all layers, so that an error names the file and line, or
the environment variable, of exactly the value that is wrong, even if pydantic detects it at the
end.

Placeholders are resolved once, after merging, so that a value of one layer may refer to a key of
another. Values from the environment are literal: placeholders in them are not replaced.

No stage stops at its first problem: `collection.Problems` collects the problems of all stages, and
a value that one stage has rejected is not checked by the next.

The names are imported from their modules on first use, because commands that read no settings are
not to load pydantic and the YAML parser. The modules only read files and the mapping that is passed
as the environment. Every problem is a ConfigurationException.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.configuration.document import Document, Origin, Problems, collected_in, merge
    from pyjms.configuration.encryption import (
        PASSWORD_VARIABLES,
        Algorithm,
        decrypted,
        encrypted,
        is_encrypted,
    )
    from pyjms.configuration.layers import (
        PROFILES_VARIABLE,
        RESERVED_VARIABLES,
        chosen_profiles,
        overlay_environment,
        read_layers,
        refuse_misspelt_variables,
    )
    from pyjms.configuration.placeholders import Placeholders, UnknownPlaceholder, expand
    from pyjms.configuration.reader import parse_yaml, read_yaml
    from pyjms.configuration.units import Deadline, Duration, ReceiveTimeout
    from pyjms.configuration.validation import (
        DescribedModel,
        field_descriptions,
        valid_part,
        validate,
    )

__all__ = [
    "PASSWORD_VARIABLES",
    "PROFILES_VARIABLE",
    "RESERVED_VARIABLES",
    "Algorithm",
    "Deadline",
    "DescribedModel",
    "Document",
    "Duration",
    "Origin",
    "Placeholders",
    "Problems",
    "ReceiveTimeout",
    "UnknownPlaceholder",
    "chosen_profiles",
    "collected_in",
    "decrypted",
    "encrypted",
    "expand",
    "field_descriptions",
    "is_encrypted",
    "merge",
    "overlay_environment",
    "parse_yaml",
    "read_layers",
    "read_yaml",
    "refuse_misspelt_variables",
    "valid_part",
    "validate",
]

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.configuration.encryption": """
                Algorithm PASSWORD_VARIABLES decrypted encrypted is_encrypted
            """,
            "pyjms.configuration.document": "Problems collected_in Document Origin merge",
            "pyjms.configuration.validation": """
                DescribedModel field_descriptions valid_part validate
            """,
            "pyjms.configuration.units": "Deadline Duration ReceiveTimeout",
            "pyjms.configuration.layers": """
                RESERVED_VARIABLES refuse_misspelt_variables PROFILES_VARIABLE chosen_profiles
                overlay_environment read_layers
            """,
            "pyjms.configuration.placeholders": "Placeholders UnknownPlaceholder expand",
            "pyjms.configuration.reader": "parse_yaml read_yaml",
        }
    ),
)
