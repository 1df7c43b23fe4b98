import traceback


def reason(error):
    details = str(error)
    for place in traceback.extract_tb(error.__traceback__)[-1:]:
        details += f" (at {place.filename}:{place.lineno})"
    return {"type": type(error).__name__, "details": details}
