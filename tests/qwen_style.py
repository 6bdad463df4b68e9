"""A chat template that lays out a conversation with tools as Qwen3.5's does: calls as tags, their
arguments walked as an object, results in a user's turn, thoughts kept after the last question only.
"""

TEMPLATE = r"""
{%- macro calls_of(message) %}
    {%- for call in message.tool_calls or [] %}
        {%- set call = call.function | default(call) %}
        {{- '\n\n' if loop.first and message.content | trim else '' if loop.first else '\n' }}
        {{- '<tool_call>\n<function=' + call.name + '>\n' }}
        {%- for name, value in call.arguments | items %}
            {{- '<parameter=' + name + '>\n' }}
            {%- set nested = value is mapping or (value is sequence and value is not string) %}
            {{- value | tojson if nested else value | string }}
            {{- '\n</parameter>\n' }}
        {%- endfor %}
        {{- '</function>\n</tool_call>' }}
    {%- endfor %}
{%- endmacro %}
{%- set system = messages[0].content | trim if messages[0].role == 'system' else '' %}
{%- if tools %}
    {{- '<|im_start|>system\n# Functions\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' + tool | tojson }}
    {%- endfor %}
    {{- '\n</tools>\n\nCall one like this:\n<tool_call>\n<function=NAME>\n<parameter=WHICH>\n' }}
    {{- 'what\n</parameter>\n</function>\n</tool_call>' }}
    {{- '\n\n' + system if system else '' }}
    {{- '<|im_end|>\n' }}
{%- elif system %}
    {{- '<|im_start|>system\n' + system + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(question=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- set ns.question = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- if ns.question < 0 %}
    {{- raise_exception('There is no question of a user') }}
{%- endif %}
{%- for message in messages %}
    {%- set said = message.content | trim %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\n' + said + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if loop.index0 > ns.question %}
            {{- '<think>\n' + (message.reasoning_content or '') | trim + '\n</think>\n\n' }}
        {%- endif %}
        {{- said + calls_of(message) + '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '' if loop.previtem and loop.previtem.role == 'tool' else '<|im_start|>user' }}
        {{- '\n<tool_response>\n' + said + '\n</tool_response>' }}
        {{- '' if loop.nextitem and loop.nextitem.role == 'tool' else '<|im_end|>\n' }}
    {%- elif message.role != 'system' or not loop.first %}
        {{- raise_exception('A ' + message.role + ' has no place here') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n<think>\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
